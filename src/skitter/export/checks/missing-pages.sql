-- title: Missing pages
-- about: URLs that answer 404 or 410, with the number of pages that link to them.
-- advice: Redirect what has moved; remove links to what is gone.
-- group: Errors
-- kind: problem
select u.url, u.fetch_status as status, count(l.source) as linked_from, u.parent as first_found_on
from urls u
left join links l on l.target = u.url
where u.state = 'crawled' and u.fetch_status in (404, 410)
group by all
order by linked_from desc, u.url
