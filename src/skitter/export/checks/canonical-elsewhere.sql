-- title: Pages that name another as canonical
-- about: Pages whose canonical URL is another page.
-- advice: Check that both are the same; otherwise this page disappears from search engines.
-- group: What search engines are told
-- kind: problem
select url, canonical from html_pages where canonical_key <> key order by url
