-- title: Pages whose links are not followed
-- about: Pages with nofollow, in their HTML or in an X-Robots-Tag.
-- advice: Check that each of them is meant: what only they link to is not found.
-- group: What search engines are told
-- kind: problem
select url, title, links_count from html_pages where not robots_follow order by url
