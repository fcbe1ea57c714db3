"""Tags text with a trained model: python infer.py --help"""

import sys

from ms_crf.infer_command import main

if __name__ == '__main__':
    sys.exit(main())
