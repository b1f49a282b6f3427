"""Object stores: what lies at addresses such as `s3://bucket/key`; obstore is imported where one comes in."""
