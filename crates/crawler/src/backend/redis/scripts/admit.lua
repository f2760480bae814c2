-- Admits URLs of this partition's domains: each that is new to link storage is remembered and queued in one step; one
-- that is known has its depth lowered if it was met nearer. And counts a page for each domain that it links to.
-- Answers how many were new, and how many were known.
local before = answered()
if before then return before end
local new, known = admit_found()
write_admitted()
write_counts()
write_sums()
return answer({ new, known })
