"""The toolbox: functions and shell commands as tools, their arguments checked, their time bounded, their failures as data."""
