-- title: Long titles
-- about: Titles of more than 60 characters: search results cut them.
-- advice: Put what matters first, and shorten the rest.
-- group: Titles and descriptions
-- kind: problem
select url, length(title) as characters, title
from html_pages
where length(title) > 60
order by characters desc, url
