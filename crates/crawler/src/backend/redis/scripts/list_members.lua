local function all(name) return call('HGETALL', base .. name) end
return { all('members'), all('heartbeats'), all('locations'), all('standbys'), now, state() }
