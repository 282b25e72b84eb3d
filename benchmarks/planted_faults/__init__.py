"""Does the self-check of a build catch faults, and none where there are none?"""
