from discrete_meanflow.cli import main

main()
