local current = state()
if current[1] == 'ended' and current[3] == tonumber(ARGV[1]) then call('SET', base .. 'result', ARGV[2]) end
