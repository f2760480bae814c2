-- What was used, and which budget is spent, if one is.
return { used.pages, used.bytes, used.received, spent() or '' }
