-- How many pages are stored, and the bytes they take.
return { call('ZCARD', base .. 'stored'), tonumber(call('GET', base .. 'bytes') or 0) }
