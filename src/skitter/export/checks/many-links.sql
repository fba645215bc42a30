-- title: Pages with very many links
-- about: HTML pages with more than 300 links.
-- advice: Divide them: neither readers nor search engines follow all.
-- group: Structure
-- kind: problem
select url, links_count as links, title from html_pages where links_count > 300 order by links desc, url
