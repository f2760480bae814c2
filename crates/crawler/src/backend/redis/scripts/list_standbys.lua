local standbys, records = {}, call('HGETALL', base .. 'standbys')
for i = 1, #records, 2 do
  local at, role, location = records[i + 1]:match('^(%d+) (%S+) (.*)$')
  local age = at and tonumber(now) - tonumber(at)
  if age and age >= 0 and age <= STANDBY_TTL then standbys[#standbys + 1] = { role, records[i], location, age } end
end
return standbys
