-- Counts HTTP requests that no completion has reported.
if answered() then return end
call('HINCRBY', base .. 'counts', 'requests', argument())
answer(1)
