"""A live cluster, read by raw fetches: connections, requests, answers, and the client's properties and security.

cluster.py             leaders, offsets, configurations, stored batches
live_log.py            a partition's log: fixed at planning, fetched later by a task
fetch.py               a range of it as a file of whole batches, with a limit on bytes a second
connection.py          one connection to one broker; how long to wait
requests.py            requests and answers, each answer checked before use
client_properties.py   kafka-python's settings from the properties of Java's clients
security.py            values of properties, secrets that messages hide, login modules; TLS from ssl.* properties
sasl.py                SASL from sasl.* properties; the tokens of OAUTHBEARER
"""

from kgroups_spark.errors import KgroupsError, how_to_install

try:
    import kafka  # noqa: F401
except ImportError as error:
    raise KgroupsError(f"reading a live cluster needs kafka-python: {how_to_install('live')}") from error
