-- title: Long descriptions
-- about: Descriptions of more than 160 characters: search results cut them.
-- advice: Shorten them to what matters.
-- group: Titles and descriptions
-- kind: problem
select url, length(description) as characters, description
from html_pages
where length(description) > 160
order by characters desc, url
