INSERT INTO pages (id, url, host, domain, language, fetched_at, title, text)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
