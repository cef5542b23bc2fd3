"""run.py --list names every test, run.py TEST... runs these and prints why one was skipped.

Exit code 77 where all were skipped, as CTest wants it.
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


def main():
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(FOLDER))
    if sys.argv[1:] == ["--list"]:
        print("\n".join(all_tests()))
        return 0
    suite = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:] or all_tests())
    result = unittest.TextTestRunner(verbosity=2, stream=sys.stdout).run(suite)
    if not result.wasSuccessful():
        return 1
    # A class that is skipped runs no test.
    return 77 if result.skipped and result.testsRun <= len(result.skipped) else 0


if __name__ == "__main__":
    sys.exit(main())
