"""The report: a lake on one HTML page that needs neither a network nor a server.

queries/    the questions: SQL that Spark, DuckDB and `kgroups sql` all run unchanged
figures     an answer as a table or a plot, with its SQL
plots       plots as static SVG: they print, scale, and follow the reader's colours without a script
sections    the order of the figures, and the sentences around them
headlines   the page in a few sentences, the most urgent first
page        all of these as HTML
"""
