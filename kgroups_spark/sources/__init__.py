"""Files and folders of log segments, as logs of partitions. The other source, a live cluster, is the room `cluster`.

files.py           local files and object stores: S3 settings, stand-ins for a store out of reach, .properties
partition_log.py   PartitionLog, the interface of a log that is planned and read; a segment file that may change
segments.py        the partitions in folders; the brokers' checkpoint files; copies of one partition
segment_log.py     a partition's log in segment files: planned, listed again if files change, read
"""
