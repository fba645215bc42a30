-- title: Long addresses
-- about: Pages whose address has more than 200 characters.
-- advice: Shorten them: they are cut in mails and hard to share.
-- group: Addresses
-- kind: problem
select url, length(url) as characters from html_pages where length(url) > 200 order by characters desc, url
