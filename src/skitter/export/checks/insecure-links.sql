-- title: Links from https to http
-- about: Links from pages with https to addresses with http.
-- advice: Link to the https address.
-- group: Addresses
-- kind: problem
select source, target
from links
where starts_with(source, 'https://') and starts_with(target, 'http://')
order by target, source
