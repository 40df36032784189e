"""How fast kgroups-spark is, measured against others on the same log. README.md says what is measured and how."""

# Options by which the JVM of our session has both compilers and the collector that it has elsewhere.
FULL_JIT = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4 -XX:+UseG1GC"}
