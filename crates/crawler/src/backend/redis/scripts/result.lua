-- Keeps the result of a crawl that is over, unless it was opened again meanwhile.
local opening, result = number(), argument()
local phase, _, openings = unpack(crawl())
if phase == 'over' and opening == openings then call('SET', base .. 'result', result) end
