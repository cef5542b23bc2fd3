"""Runs tests on hosts, for CTest.

run.py --list        prints the name of every test
run.py --local-runs  makes the trainings on one host that other tests compare with
run.py TEST...       runs these tests and prints why a test was skipped

The exit code is 77 if all tests are skipped.
"""

import pathlib
import sys
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent


def all_tests():
    def leaves(suite):
        for test in suite:
            yield from leaves(test) if isinstance(test, unittest.TestSuite) else [test.id()]
    return sorted(leaves(unittest.defaultTestLoader.discover(str(FOLDER), pattern="*_test.py")))


def local_runs():
    import job
    if why := job.rig.missing():
        print(why)
        return 77
    job.train_locally()
    return 0


def main():
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(FOLDER))
    if sys.argv[1:] == ["--list"]:
        print("\n".join(all_tests()))
        return 0
    if sys.argv[1:] == ["--local-runs"]:
        return local_runs()
    suite = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:] or all_tests())
    result = unittest.TextTestRunner(verbosity=2, stream=sys.stdout).run(suite)
    if not result.wasSuccessful():
        return 1
    # A class that is skipped runs no test.
    return 77 if result.skipped and result.testsRun <= len(result.skipped) else 0


if __name__ == "__main__":
    sys.exit(main())
