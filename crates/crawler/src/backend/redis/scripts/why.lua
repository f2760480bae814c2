-- What is known of a URL: its entry among the outstanding ones, how many redirects led to it, and its link. Nothing is changed.
local id = argument()
local _, link = find_link(id)
local entry = call('HGET', base .. 'outstanding', id)
local task = entry and call('HGET', base .. 'tasks', entry:match('^%d+'))
return { entry or '', task and cmsgpack.unpack(task)[2] or 0, link or '' }
