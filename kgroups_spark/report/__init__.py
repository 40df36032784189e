"""The report: a lake on one HTML page that needs neither a network nor a server.

queries/, group_queries/   the questions, in DuckDB's dialect; the head of one has the caption and columns of its table
figures.py                 an answer as a table or a plot, with its SQL; plots are static SVG
sections.py                the order of the figures, and the sentences around them
page.py                    the headlines, a part for each group, and all of it as HTML
page/                      the template, its style and its script
"""
