-- title: Pages without a canonical address
-- about: HTML pages that name no canonical URL.
-- advice: Name one if the page can be reached by several addresses.
-- group: What search engines are told
-- kind: problem
select url, title from html_pages where canonical is null and robots_index order by url
