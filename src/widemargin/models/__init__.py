"""What a fit leaves behind: predictors and their files."""
