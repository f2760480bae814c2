-- The loans of a worker whose ends are recorded, as tickets and loans.
local worker, ending = argument(), {}
for _, ticket in ipairs(call('HKEYS', base .. 'endings')) do
  local loan = loan_of(ticket)
  if loan and loan.worker == worker then ending[#ending + 1] = { ticket, loan.number } end
end
return ending
