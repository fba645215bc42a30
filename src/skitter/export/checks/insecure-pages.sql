-- title: Pages without encryption
-- about: Pages that were fetched over http.
-- advice: Redirect to https.
-- group: Addresses
-- kind: problem
select url, title from html_pages where url_protocol = 'http' order by url
