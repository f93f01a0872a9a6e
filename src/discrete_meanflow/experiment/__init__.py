"""The paper's tables and figures, each as the parts it is made of and the claims it tests."""
