"""Names that try to be markup."""

HOSTILE = "<script>document.title='owned'</script>"
