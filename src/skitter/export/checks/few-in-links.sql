-- title: Pages that one page links to
-- about: HTML pages with exactly one page that links to them.
-- advice: If they matter, link to them from related pages.
-- group: Structure
-- kind: problem
with linked as (
    select target, any_value(source) as source from links where source <> target group by target having count(*) = 1
)
select p.url, l.source as linked_from, p.title
from html_pages p
join linked l on l.target = p.url
order by p.url
