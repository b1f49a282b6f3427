"""Object stores at addresses such as `s3://bucket/key`; obstore is imported when it is needed."""
