-- Milliseconds by Redis's own clock; how far the crawl's is ahead of it is for tests alone.
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1]
