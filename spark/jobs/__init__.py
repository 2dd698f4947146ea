"""Jobs of Spark: how splits are packed into tasks, what runs on executors, and the one action that runs them.

Source: format/spark §3, §5.
"""
