"""Run the command: `python -m sagabus_cli`."""

from sagabus_cli.app import main

if __name__ == "__main__":
    main()
