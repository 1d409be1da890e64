"""Names that try to be markup."""

HOSTILE = "<script>document.title='owned'</script>"
AWKWARD = (f"{HOSTILE}.jpg", 'it\'s "quoted" & más.jpg', f"{'x' * 200}.jpg", "日本 鳥.jpg")  # of files
