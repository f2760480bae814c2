-- The loans of a worker whose ends are recorded and can be brought about by anybody, as tickets and loans. Where children are
-- admitted only with the end, the URL is visited again instead.
local worker, ending = argument(), {}
for _, ticket in ipairs(call('HKEYS', base .. 'endings')) do
  local loan = loan_of(ticket)
  if loan and loan.worker == worker then
    local recorded = cmsgpack.unpack(call('HGET', base .. 'endings', ticket))
    if recorded[#recorded] == '0' then ending[#ending + 1] = { ticket, loan.number } end
  end
end
return ending
