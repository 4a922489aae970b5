"""The toolbox: functions and shell commands as tools.

Arguments are checked, time is bounded, and failures are returned as data.
"""
