"""The report: what a lake's tables say, on one HTML page that needs neither a network nor a server.

queries/    what is asked, SQL that Spark and DuckDB both take and `kgroups sql` runs as it stands
figures     an answer as a table or a plot, with its SQL
plots       plots as static SVG: they print, scale, and follow the reader's colours without a script
sections    which figures stand where, and the sentences around them
headlines   the page in a few sentences, the most urgent first
page        all of it as HTML
"""
