-- title: Canonical chains
-- about: Pages whose canonical page names yet another page as canonical.
-- advice: Name the last one everywhere.
-- group: What search engines are told
-- kind: problem
select p.url, p.canonical, t.canonical as which_names
from html_pages p
join html_pages t on t.key = p.canonical_key
where p.canonical_key <> p.key and t.canonical_key <> t.key
order by p.url
