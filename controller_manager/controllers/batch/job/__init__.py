"""job-controller: runs pods until enough of them have succeeded."""
