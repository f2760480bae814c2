-- Which server this is: those who ask under several names may meet the same one.
return call('INFO', 'server'):match('run_id:(%x+)')
