-- title: Orphan pages
-- about: Pages that a sitemap, feed or seed named, and that no other page links to.
-- advice: Link to them from a page that visitors see, or remove them.
-- group: Structure
-- kind: problem
select p.url, p.title, coalesce(u.listed_by, 'seed') as known_from
from html_pages p
join urls u on u.key = p.key
where (u.listed_by is not null or u.parent is null)
    and not exists (select 1 from links l where l.target = p.url and l.source <> p.url)
order by p.url
