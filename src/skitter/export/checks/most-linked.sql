-- title: Most linked pages
-- about: The URLs that most pages link to.
-- advice: These are the main pages of the site, as its links tell.
-- group: Structure
-- kind: overview
-- chart: url, linked_from
select target as url, count(*) as linked_from
from links
where source <> target
group by target
order by linked_from desc, url
limit 100
