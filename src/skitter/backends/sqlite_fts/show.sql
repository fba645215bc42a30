-- One page that was found, with what its text says around the match.
SELECT pages.url, pages.title, snippet(words, 1, :open, :close, '…', :snippet_words), pages.domain, pages.fetched_at
FROM words JOIN pages ON pages.number = words.rowid
WHERE words MATCH :match AND words.rowid = :number
