"""The mobility algorithms of the paper's §3, each as three answers to one walk."""
