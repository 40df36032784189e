"""The report: a lake on one HTML page that needs neither a network nor a server.

queries/, group_queries/   the questions: SQL that Spark, DuckDB and `kgroups sql` all run unchanged
figures.py                 an answer as a table or a plot, with its SQL; plots are static SVG
sections.py                the order of the figures, and the sentences around them
page.py                    the headlines, a part for each group, and all of it as HTML
page/                      the template, its style and its script
"""
