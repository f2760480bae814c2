-- Counts a URL as kept that was counted otherwise: it has had the number of a page since an earlier visit.
if answered() then return end
local label = argument()
call('HINCRBY', base .. 'outcomes', 'page', 1)
if call('HINCRBY', base .. 'outcomes', label, -1) <= 0 then call('HDEL', base .. 'outcomes', label) end
answer(1)
